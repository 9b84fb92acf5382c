"""Celery and kombu."""
