"""What runs where: placement files, their profiles, and what becomes of them for a model."""
