"""From other people's files to an archive: a plan, its parts, the workers that write them, and the run of it all."""
