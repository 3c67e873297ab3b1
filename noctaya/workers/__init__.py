"""A worker: brings services to what their specs say, adds up demand, answers KEDA, tells gateways the routes.

Every effect is asked of `permission(shard)` directly before it. A worker must never act for a shard that another one may act
for, never tell KEDA "I don't know" as zero, and never stand on a warm request's path.
"""
