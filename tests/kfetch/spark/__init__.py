"""What Spark calls, without Spark's engine."""
