// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads a trace into Perfetto's trace_processor, and prints the rows of queries as JSON, one query a line:
//
//     node query.js FOLDER TRACE 'select ...' ...
//
// FOLDER has the npm package that carries trace_processor as WebAssembly, with the script of a browser's worker that calls
// it. This program gives that script the few objects of a worker that it needs.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, traceFile, ...queries] = process.argv.slice(2);

// Protobuf's wire format, as far as the messages below need it.
function varint(value) {
    const bytes = [];
    for (let left = BigInt(value); ; left >>= 7n) {
        if (left < 0x80n) return Buffer.from([...bytes, Number(left)]);
        bytes.push(Number(left & 0x7fn) | 0x80);
    }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field << 3 | 2), varint(value.length), value]);

function* fields(message) {
    let at = 0;
    const read = () => {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = message[at++];
            value |= BigInt(byte & 0x7f) << shift;
            if (!(byte & 0x80)) return value;
        }
    };
    while (at < message.length) {
        const tag = Number(read());
        const field = tag >> 3;
        if ((tag & 7) === 0) yield [field, read()];
        else if ((tag & 7) === 1) yield [field, message.subarray(at, at += 8)];
        else if ((tag & 7) === 2) {
            const size = Number(read());
            yield [field, message.subarray(at, at += size)];
        } else throw new Error(`a field of type ${tag & 7}`);
    }
}
const all = (message, field) => [...fields(message)].filter(([f]) => f === field).map(([, value]) => value);
const only = (message, field) => all(message, field)[0];

// TraceProcessorRpc and its messages.
const rpcStream = {msg: 1};
const rpc = {seq: 1, request: 2, response: 3, fatalError: 5, appendResult: 201, queryResult: 203, appendData: 101, queryArgs: 103};
const method = {append: 1, finalize: 2, query: 3};
const result = {columns: 1, error: 2, batch: 3};
const cells = {types: 1, varints: 2, floats: 3, blobs: 4, strings: 5, last: 6};
const cellType = {null: 1n, varint: 2n, float: 3n, string: 4n, blob: 5n};

function rows(batch) {
    const numbers = all(batch, cells.varints).flatMap((packed) => {
        if (typeof packed === 'bigint') return [packed];
        const found = [];
        let value = 0n, shift = 0n;
        for (const byte of packed) {
            value |= BigInt(byte & 0x7f) << shift;
            shift += 7n;
            if (byte & 0x80) continue;
            found.push(BigInt.asIntN(64, value));
            value = shift = 0n;
        }
        return found;
    });
    const floats = all(batch, cells.floats).flatMap(
        (packed) => Array.from({length: packed.length / 8}, (_, i) => packed.readDoubleLE(8 * i)));
    const texts = all(batch, cells.strings).map((text) => text.toString()).join('').split('\0');
    return all(batch, cells.types).flatMap((packed) => typeof packed === 'bigint' ? [packed] : [...packed].map(BigInt)).map((type) => {
        if (type === cellType.varint) return Number(numbers.shift());
        if (type === cellType.float) return floats.shift();
        if (type === cellType.string) return texts.shift();
        return null;
    });
}

async function main() {
    let answer = () => {};
    let pending = Buffer.alloc(0);
    const port = {
        // Replies come as parts of a stream of messages.
        postMessage(data) {
            pending = Buffer.concat([pending, Buffer.from(data)]);
            for (;;) {
                if (pending.length < 2) return;
                let size = 0, shift = 0, at = 1;
                while (at < pending.length && pending[at] & 0x80) {
                    size |= (pending[at++] & 0x7f) << shift;
                    shift += 7;
                }
                if (at >= pending.length) return;
                size |= pending[at++] << shift;
                if (pending.length < at + size) return;
                const message = pending.subarray(at, at + size);
                pending = pending.subarray(at + size);
                answer(message);
            }
        },
    };
    const worker = {
        console: {log() {}, warn: (line) => process.env.TRACE_PROCESSOR_VERBOSE && console.error(line)},
        importScripts() {},
        location: {href: 'worker'},
        performance, setTimeout, clearTimeout, TextDecoder, TextEncoder, WebAssembly, URL,
        Uint8Array, ArrayBuffer, TypeError, RangeError, // the script asks whether errors and data of this program are such
        // By which the script reads the module, without waiting.
        XMLHttpRequest: class {
            open(_, name) { this.name = name; }
            send() {
                const content = fs.readFileSync(path.join(folder, path.basename(this.name)));
                this.status = 200;
                this.response = content.buffer.slice(content.byteOffset, content.byteOffset + content.length);
            }
        },
    };
    worker.self = worker;
    vm.runInNewContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker);
    worker.onmessage({data: {enginePort: port, port}, ports: [port]});

    let sequence = 0;
    const send = (call, body = Buffer.alloc(0)) => {
        const message = Buffer.concat([number(rpc.seq, sequence++), number(rpc.request, call), body]);
        const data = new Uint8Array(bytes(rpcStream.msg, message));
        port.onmessage({data});
    };
    await new Promise((resolve) => setTimeout(resolve, 0)); // the script has callbacks of its own to run first

    const errors = [];
    answer = (message) => {
        const fatal = only(message, rpc.fatalError);
        if (fatal) errors.push(fatal.toString());
        const appended = only(message, rpc.appendResult);
        const error = appended && only(appended, 2);
        if (error) errors.push(error.toString());
    };
    const trace = fs.readFileSync(traceFile);
    for (let at = 0; at < trace.length; at += 1 << 20) send(method.append, bytes(rpc.appendData, trace.subarray(at, at + (1 << 20))));
    send(method.finalize);
    if (errors.length) throw new Error(errors.join('; '));
    for (const query of queries) {
        let columns = [];
        const values = [];
        answer = (message) => {
            const part = only(message, rpc.queryResult);
            if (!part) return;
            const error = only(part, result.error);
            if (error && error.length) errors.push(error.toString());
            const names = all(part, result.columns).map((name) => name.toString());
            if (names.length) columns = names;
            for (const batch of all(part, result.batch)) values.push(...rows(batch));
        };
        send(method.query, bytes(rpc.queryArgs, bytes(1, Buffer.from(query))));
        if (errors.length) throw new Error(`${query}: ${errors.join('; ')}`);
        const found = [];
        for (let i = 0; i < values.length; i += columns.length)
            found.push(Object.fromEntries(columns.map((name, k) => [name, values[i + k]])));
        console.log(JSON.stringify(found));
    }
}

main().then(() => process.exit(0), (error) => {
    console.error(error.message || error);
    process.exit(1);
});
