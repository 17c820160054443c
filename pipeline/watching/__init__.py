"""What everything that watches a run is told, and who tells it: the page, the metrics, the log.

Workers report each batch (:mod:`pipeline.batches.reports`), the client adds the reports up
(:mod:`pipeline.batches.run_record`). From there an event goes to the log for each report, and once a second the state
of the run to the scheduler, which shows it on its page and tells it to Prometheus. What workers do they count
themselves.
"""
