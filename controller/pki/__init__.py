"""The certificate authority of a fabric."""
