"""Parts without input and output, which both clients share."""
