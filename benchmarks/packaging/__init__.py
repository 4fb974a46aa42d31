"""Where the time of `aot-package` goes, in processor seconds."""
