"""A folder to put first on the path of Spark's workers: its format dies on purpose."""
