"""Keys and signatures: who vouches for a package."""
