"""What every HTTP route needs: a server on the running loop, errors as JSON, the token, health, clients that
disconnect."""
