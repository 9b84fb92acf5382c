"""Connections: dialling, messages, requests, events, the end."""
