"""Wire formats. Each one translates to and from the protobuf vocabulary and knows no other."""
