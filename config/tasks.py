"""Sending what people must be told. Each task may run twice or late without harm."""

from celery import shared_task
from django.utils.timezone import now

from keys import webhooks
from tenants import delivery


@shared_task(ignore_result=True)
def deliver_alerts() -> None:
    """Send each alert delivery that is due, each as its own task: a slow receiver holds nobody up."""
    delivery.watch_mail(now=now())
    for delivery_id in delivery.due_deliveries(now=now()):
        send_delivery.delay(delivery_id)


@shared_task(ignore_result=True)
def send_delivery(delivery_id: int) -> None:
    """Send one mail or webhook call; a second task for it finds it claimed."""
    delivery.send_delivery(delivery_id=delivery_id, now=now(), post=webhooks.post)
