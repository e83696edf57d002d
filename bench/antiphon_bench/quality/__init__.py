"""Quality of speech: intelligibility, speaker similarity, opinion scores and defects."""
