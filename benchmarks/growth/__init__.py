"""How cost grows with size: every operator at n, 4n, 16n beside eager (README.md)."""
