"""Privacy as a curve: tradeoff functions, what they are made from, and their composition between two bounds."""
