"""The figures of [S]: trainings that are attacked and certified."""
