"""Programs for this repository's documentation. No distribution contains them."""
