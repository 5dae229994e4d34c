"""What Prometheus and Grafana need for the platform, made from the registry of metrics: `python -m docs.generate` writes
`deploy/monitoring/`.

    alerts.py       the alerts, each with a section of docs/operators-guide.md
    rules.py        Prometheus's files of rules and their tests
    dashboard.py    Grafana's dashboard
"""
