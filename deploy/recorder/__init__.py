"""Keeps what one party receives in a task, where that party's operator switched it on."""
