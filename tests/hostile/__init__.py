"""Packages that someone has changed to do harm: real ones to change, and the run that does."""
