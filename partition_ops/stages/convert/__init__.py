"""Stage ``convert``: from an assignment to the files that DGL's distributed training loads.

A shuffle: the *plan* makes groups of chunks, *scatter* reads each edge of a group once and puts it into
the bucket of its owner, *gather* builds one partition from its buckets, and at the end the partition config
is written.

`convert_parmetis` gets to the same files from the text that ParMETIS wrote.
"""
