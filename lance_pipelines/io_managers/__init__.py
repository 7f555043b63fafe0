"""The IO manager, which stores what assets return in Lance datasets and loads it for the assets after them."""
