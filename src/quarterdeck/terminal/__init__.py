"""What terminal commands are made of: the client, options, how numbers and times are shown, words for errors."""
