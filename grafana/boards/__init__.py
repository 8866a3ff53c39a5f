"""The boards, in the order in which they are listed."""

from grafana.boards.capacity import CAPACITY
from grafana.boards.overview import OVERVIEW
from grafana.boards.proxy import PROXY
from grafana.boards.regression import REGRESSION
from grafana.boards.streams import STREAMS
from grafana.boards.users import USERS

BOARDS = (OVERVIEW, REGRESSION, STREAMS, CAPACITY, USERS, PROXY)
