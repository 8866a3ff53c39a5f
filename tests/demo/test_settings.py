from proxy.demo.settings import DemoSettings
from proxy.settings import settings_of


def test_the_demo_runs_until_it_is_ended_on_the_usual_ports() -> None:
    settings = DemoSettings()
    assert (settings.seconds, settings.host) == (None, "127.0.0.1")
    assert (settings.port, settings.admin_port) == (8080, 9464)


def test_every_setting_of_the_demo_is_a_flag() -> None:
    assert [one.flag for one in settings_of(DemoSettings)] == [
        "--seconds",
        "--host",
        "--port",
        "--admin-port",
    ]
