from tests.settings import exact_floats

exact_floats()  # before a module here imports torch's samples
