"""The Spark source and sink at speed, beside what Spark and the server can do by themselves."""
