#!/usr/bin/env bash
# Builds the image of the release in dist/ without a daemon: `make image`. As root on Debian; needs buildah and mmdebstrap.
#
#   deploy/image/build.sh [FOLDER]      an OCI archive into FOLDER (dist), and the image magnetar:VERSION for buildah and podman here
#
# BASE is the image that it begins with. Without it that is one made of Debian's packages by mmdebstrap, once a month.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-dist}
suite=bookworm

for tool in buildah ${BASE:-mmdebstrap}; do
  [ "$tool" = "${BASE:-}" ] || command -v "$tool" >/dev/null || { echo "no $tool: apt-get install buildah mmdebstrap" >&2; exit 2; }
done
archive=$(ls "$folder"/magnetar-*.tar.gz 2>/dev/null | tail -n 1)
[ -n "$archive" ] || { echo "no release in $folder: run make release" >&2; exit 2; }
version=$(basename "$archive" .tar.gz)
version=${version#magnetar-}

if [ -z "${BASE:-}" ]; then
  BASE=localhost/magnetar-base:$suite-$(date +%Y%m)
  if ! buildah inspect --type image "$BASE" >/dev/null 2>&1; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # As a slim image of Debian: no documents, and no translations but those of licenses that have to stay.
    mmdebstrap --quiet --variant=minbase \
      --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
      --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$work/base.tar"
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/base.tar" / >/dev/null
    buildah commit --quiet --rm "$container" "$BASE" >/dev/null
  fi
fi

# chroot: needs neither a daemon nor a network of its own, and works where containers may not be started.
authorities=${AUTHORITIES:-/etc/ssl/certs/ca-certificates.crt} # of this machine, which may trust a proxy's
buildah build --secret "id=authorities,src=$authorities" --isolation "${ISOLATION:-chroot}" --format docker --build-arg "BASE=$BASE" --layers=false \
  --timestamp "$(git log -1 --format=%ct)" \
  --label org.opencontainers.image.title=Magnetar --label "org.opencontainers.image.version=$version" \
  --label "org.opencontainers.image.revision=$(git rev-parse HEAD)" --label org.opencontainers.image.licenses=Apache-2.0 \
  --tag "magnetar:$version" --file deploy/image/Containerfile .
buildah push --quiet "magnetar:$version" "docker-archive:$folder/magnetar-$version-image.tar:magnetar:$version"
ls -lh "$folder/magnetar-$version-image.tar"
