"""The wire form of the control stream: `control.proto`, and the code that protoc makes of it (`make proto`)."""
