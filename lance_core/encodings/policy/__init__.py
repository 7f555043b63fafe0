"""Write policy: decides how pages are encoded. This package only decides; it does not encode anything."""
