"""Planning of the head scheduler: which waiting job starts where, and what is reserved or sent ahead."""
