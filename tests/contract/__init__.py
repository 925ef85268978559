"""One contract for all components: what is drawn is charged, before it leaves, and nothing else leaves."""
