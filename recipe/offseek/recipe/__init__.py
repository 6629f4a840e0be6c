"""DeepSeek V4 / V4.1 chat format: requests to prompts and token ids, model output to responses."""
