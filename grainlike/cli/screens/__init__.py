"""Commands that show a head until they are ended.

Answers: how a listing is shown again and again (`_watch`), what a job prints (`_job_log`), and the start of `top`
(`_top`) and of the dashboard, also beside a head (`_dashboard`).
"""
