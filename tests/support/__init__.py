"""What tests share: where the data lies, nasty text, and slow readable twins to compare with."""
