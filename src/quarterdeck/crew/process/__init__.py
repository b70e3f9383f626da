"""What both processes are made of besides their drivers: doors, who may come in, signals, an orderly end."""
