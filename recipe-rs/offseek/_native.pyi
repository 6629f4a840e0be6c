"""Types of the compiled extension `offseek._native` (built from `recipe-rs/python`)."""
