"""Dense linear algebra beside eager's LAPACK."""
