"""`python -m aot_runtime` is `aot-runtime`."""

from .tools.main import main

if __name__ == "__main__":
    main()
