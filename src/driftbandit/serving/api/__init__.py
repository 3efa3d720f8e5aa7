"""HTTP: a request finds its route in `app`, its handler asks the engine, and `views` say what is answered."""
