"""What the ten examples cost: bytes of their packages, and how soon a fresh process answers."""
