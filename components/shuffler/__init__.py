"""The shuffle model: clients encode and encrypt, a shuffler permutes what it cannot read, a server opens and adds up."""
