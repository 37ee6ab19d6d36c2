"""A study: its text, its settings, and what it promises. catalogue/ holds the studies that ship."""
