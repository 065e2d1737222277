// js_keep.mjs - what outlives a sandbox: snapshots and volumes, as far as the SDK knows them.
import assert from "node:assert/strict";

import {
    create, output, refuses, until, withManager, withSandbox,
} from "./js_client.mjs";

const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const claim = (claimName, fields = {}, pvc = {}) => ({
    name: "v", mountPath: "/data", pvc: { claimName, ...pvc }, ...fields,
});

// The SDK has no call for named volumes by themselves; they go with the sandbox that made them.
const ofSandbox = { createIfNotExists: true, deleteOnSandboxTermination: true };

async function ready(manager, snapshot) {
    return until("the snapshot", async () => {
        const info = await manager.getSnapshot(snapshot.id);
        assert.ok(["Creating", "Ready"].includes(info.status.state), JSON.stringify(info));
        return info.status.state === "Ready" && info;
    });
}

export const tests = {
    async "a snapshot is taken, listed, restored and deleted"() {
        await withManager({}, (manager) => withSandbox({}, async (sandbox) => {
            await output(sandbox, "echo of the snapshot >/root/kept");
            const first = await manager.createSnapshot(sandbox.id, { name: "first" });
            assert.equal(first.sandboxId, sandbox.id);
            assert.equal(first.name, "first");
            const info = await ready(manager, first);
            assert.ok(info.createdAt instanceof Date, `${info.createdAt}`);
            await output(sandbox, "echo changed since >/root/kept");
            const second = await manager.createSnapshot(sandbox.id);
            await ready(manager, second);

            const listed = async (filter) =>
                (await manager.listSnapshots({ sandboxId: sandbox.id, ...filter })).items
                    .map((item) => item.id);
            assert.deepEqual(await listed({}), [second.id, first.id]);
            assert.deepEqual(await listed({ states: ["Ready"], pageSize: 1, page: 2 }), [first.id]);
            assert.deepEqual(await listed({ states: ["Failed"] }), []);

            await withSandbox({ image: undefined, snapshotId: first.id }, async (restored) => {
                assert.equal(await output(restored, "cat /root/kept"), "of the snapshot");
                await manager.deleteSnapshot(first.id); // its files stay for the sandbox
                assert.equal(await output(restored, "cat /root/kept"), "of the snapshot");
            });
            await refuses(404, "SNAPSHOT::NOT_FOUND", manager.getSnapshot(first.id));
            await manager.deleteSnapshot(second.id);
            assert.deepEqual(await listed({}), []);
        }));
    },
    async "snapshots refuse what is wrong"() {
        await withManager({}, (manager) => withSandbox({}, async (sandbox) => {
            await refuses(404, undefined, manager.createSnapshot(UNKNOWN));
            await refuses(404, "SNAPSHOT::NOT_FOUND", manager.getSnapshot(UNKNOWN));
            await refuses(404, "SNAPSHOT::NOT_FOUND", manager.deleteSnapshot(UNKNOWN));
            await refuses(404, undefined, create({ image: undefined, snapshotId: UNKNOWN }));
            await sandbox.pause();
            await refuses(409, "SNAPSHOT::INVALID_SOURCE_STATE",
                manager.createSnapshot(sandbox.id));
        }));
    },
    async "a named volume is shared, read-only where asked, and outlives its readers"() {
        const volume = claim("js-shared", {}, ofSandbox);
        await withSandbox({ volumes: [volume] }, async (writer) => {
            await output(writer, "mkdir /data/sub; echo deep >/data/sub/f");
            const part = claim("js-shared", { readOnly: true, subPath: "sub" });
            await withSandbox({ volumes: [part] }, async (reader) => {
                assert.equal(await output(reader, "cat /data/f; touch /data/g || echo refused"),
                    "deep\nrefused");
            });
            assert.equal(await output(writer, "cat /data/sub/f"), "deep");
        });
        // It went with the sandbox that made it.
        await refuses(400, "VOLUME::PVC_NOT_FOUND",
            create({ volumes: [claim("js-shared", {}, { createIfNotExists: false })] }));
    },
    async "a named volume has the size that was asked for"() {
        const volume = claim("js-sized", {}, { ...ofSandbox, storage: "32Mi" });
        await withSandbox({ volumes: [volume] }, async (sandbox) => {
            assert.equal(await output(sandbox,
                "dd if=/dev/zero of=/data/f bs=1M count=64 2>&1 | grep -o 'No space left'"),
            "No space left");
        });
    },
    async "volumes refuse what is wrong"() {
        for (const [volume, code] of [
            [claim("No-Name"), "VOLUME::INVALID_PVC_NAME"],
            [claim("js-a", { subPath: "../up" }), undefined],
            [claim("js-a", { mountPath: "/proc/x" }), "VOLUME::INVALID_MOUNT_PATH"],
            [{ name: "h", mountPath: "/data", host: { path: "/etc" } },
                "VOLUME::HOST_PATH_NOT_ALLOWED"],
        ])
            await refuses(400, code, create({ volumes: [volume] }));
    },
};
