"""Two runs side by side: figures, significance, verdict, conditions."""
