"""The smallest format: text of fixed width. A format of the product has the same four modules."""
