# docker run -p 8080:8080 -p 127.0.0.1:9464:9464 IMAGE serve --upstream http://engine:8000
FROM python:3.13-slim AS build

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN pip wheel --no-cache-dir --wheel-dir /wheels . \
    && python -m venv /opt/tokometer \
    && /opt/tokometer/bin/pip install --no-cache-dir --no-index --find-links /wheels tokometer

FROM python:3.13-slim

COPY --from=build /opt/tokometer /opt/tokometer
# Inside a container loopback is nobody's; who may reach the ports is said when they are published.
ENV PATH=/opt/tokometer/bin:$PATH \
    TOKOMETER_HOST=0.0.0.0 \
    TOKOMETER_ADMIN_HOST=0.0.0.0
USER 65532:65532
EXPOSE 8080 9464
# It asks the proxy that runs here, whatever its admin port is.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["tokometer", "health"]
ENTRYPOINT ["tokometer"]
CMD ["serve"]
