"""Client-side: extraction and batch jobs, transports for the official clients, a local server."""
