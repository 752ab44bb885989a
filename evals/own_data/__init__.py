"""The user's own tasks: files of JSONL, JSON, CSV and Parquet, and data sets of the Hugging Face Hub."""
