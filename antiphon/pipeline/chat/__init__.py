"""Chats: prompts, answers as text, and answers that are spoken."""
