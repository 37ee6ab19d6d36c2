"""What every package of the project stands on, and nobody outside it should: arrays, files, tables, compiled loops."""
