package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import java.io.EOFException
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream
import java.nio.file.FileVisitResult
import java.nio.file.Files
import java.nio.file.LinkOption
import java.nio.file.Path
import java.nio.file.SimpleFileVisitor
import java.nio.file.StandardOpenOption
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.attribute.FileTime
import java.nio.file.attribute.PosixFilePermission
import java.util.EnumSet

/**
 * Archives as directories go in and out of a sandbox: ustar, with pax header fields for what does not fit.
 * An archive comes from a sandbox and is not trusted: nothing is written outside of the directory, and
 * not through links.
 */
internal object Tar {
    private const val BLOCK = 512
    private const val NAME_BYTES = 100
    private const val OCTAL_SIZE_MAX = 8L * 1024 * 1024 * 1024 - 1
    private const val PAX_BYTES_MAX = 1L shl 20
    private const val PIECE_BYTES = 64 shl 10
    private const val DEFAULT_FILE_MODE = 420 // 0644
    private const val DEFAULT_DIRECTORY_MODE = 493 // 0755
    private const val PERMISSION_BITS = 9

    // --- packing ---

    fun pack(
        root: Path,
        out: OutputStream,
    ) {
        if (!Files.isDirectory(root)) throw IOException("$root is not a directory")
        Files.walkFileTree(
            root,
            object : SimpleFileVisitor<Path>() {
                override fun preVisitDirectory(
                    directory: Path,
                    attributes: BasicFileAttributes,
                ): FileVisitResult {
                    if (directory != root) head(out, nameOf(root, directory) + "/", directory, attributes, '5', 0, "")
                    return FileVisitResult.CONTINUE
                }

                override fun visitFile(
                    file: Path,
                    attributes: BasicFileAttributes,
                ): FileVisitResult {
                    val name = nameOf(root, file)
                    if (attributes.isSymbolicLink) {
                        head(out, name, file, attributes, '2', 0, Files.readSymbolicLink(file).toString())
                    } else if (attributes.isRegularFile) {
                        head(out, name, file, attributes, '0', attributes.size(), "")
                        copy(file, attributes.size(), out)
                    }
                    return FileVisitResult.CONTINUE
                }
            },
        )
        out.write(ByteArray(2 * BLOCK))
        out.flush()
    }

    private fun nameOf(
        root: Path,
        path: Path,
    ): String = root.relativize(path).joinToString("/")

    private fun copy(
        file: Path,
        size: Long,
        out: OutputStream,
    ) {
        var left = size
        Files.newInputStream(file).use { input ->
            val piece = ByteArray(PIECE_BYTES)
            while (left > 0) {
                val n = input.read(piece, 0, minOf(left, piece.size.toLong()).toInt())
                if (n < 0) throw IOException("$file became shorter while it was read")
                out.write(piece, 0, n)
                left -= n
            }
        }
        pad(size, out)
    }

    private fun pad(
        size: Long,
        out: OutputStream,
    ) = out.write(ByteArray(((BLOCK - size % BLOCK) % BLOCK).toInt()))

    private fun head(
        out: OutputStream,
        name: String,
        path: Path,
        attributes: BasicFileAttributes,
        kind: Char,
        size: Long,
        target: String,
    ) {
        val records = StringBuilder()
        if (name.toByteArray().size > NAME_BYTES) records.append(record("path", name))
        if (target.toByteArray().size > NAME_BYTES) records.append(record("linkpath", target))
        if (size > OCTAL_SIZE_MAX) records.append(record("size", size.toString()))
        if (records.isNotEmpty()) {
            val bytes = records.toString().toByteArray()
            out.write(block("pax", DEFAULT_FILE_MODE, 0, bytes.size.toLong(), 'x', ""))
            out.write(bytes)
            pad(bytes.size.toLong(), out)
        }
        val seconds = maxOf(0, attributes.lastModifiedTime().toMillis() / 1000)
        out.write(block(name, modeOf(path, attributes), seconds, size, kind, target))
    }

    /** "LENGTH KEY=VALUE\n", where the length counts itself. */
    private fun record(
        key: String,
        value: String,
    ): String {
        val rest = " $key=$value\n"
        val bytes = rest.toByteArray().size
        var length = bytes + 1
        while (length != bytes + length.toString().length) length = bytes + length.toString().length
        return "$length$rest"
    }

    private fun modeOf(
        path: Path,
        attributes: BasicFileAttributes,
    ): Int =
        try {
            val set = Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS)
            PosixFilePermission.values().fold(0) { mode, bit -> mode * 2 + if (bit in set) 1 else 0 }
        } catch (_: UnsupportedOperationException) {
            if (attributes.isDirectory) DEFAULT_DIRECTORY_MODE else DEFAULT_FILE_MODE
        }

    private fun block(
        name: String,
        mode: Int,
        seconds: Long,
        size: Long,
        kind: Char,
        target: String,
    ): ByteArray {
        val block = ByteArray(BLOCK)

        fun put(
            at: Int,
            bytes: ByteArray,
        ) = System.arraycopy(bytes, 0, block, at, minOf(bytes.size, NAME_BYTES))

        fun octal(
            at: Int,
            value: Long,
            digits: Int,
        ) = put(at, value.toString(8).padStart(digits, '0').toByteArray())
        put(0, name.toByteArray())
        octal(100, mode.toLong(), 7)
        octal(108, 0, 7)
        octal(116, 0, 7)
        octal(124, minOf(size, OCTAL_SIZE_MAX), 11)
        octal(136, seconds, 11)
        put(148, "        ".toByteArray())
        block[156] = kind.code.toByte()
        put(157, target.toByteArray())
        put(257, "ustar\u000000".toByteArray())
        val sum = block.sumOf { it.toInt() and 0xff }
        put(148, (sum.toString(8).padStart(6, '0') + "\u0000 ").toByteArray())
        return block
    }

    // --- unpacking ---

    private class Entry(
        val name: String,
        val kind: Char,
        val mode: Int,
        val seconds: Long,
        val size: Long,
        val target: String,
    )

    fun unpack(
        archive: InputStream,
        into: Path,
    ) {
        Files.createDirectories(into)
        val directories = ArrayList<Pair<Path, Entry>>()
        try {
            var pax = emptyMap<String, String>()
            var longName: String? = null
            while (true) {
                val block = exactly(archive, BLOCK)
                if (block.all { it.toInt() == 0 }) break
                val size = pax["size"]?.toLong() ?: number(block, 124, 12)
                if (size < 0) throw SandboxInternalException("the archive is broken: a size of $size")
                val kind = block[156].toInt().toChar()
                if (kind == 'x' || kind == 'g' || kind == 'L') {
                    if (size > PAX_BYTES_MAX) throw SandboxInternalException("the archive is broken: a header is too large")
                    val data = exactly(archive, size.toInt())
                    exactly(archive, padding(size))
                    if (kind == 'x') pax = records(data)
                    if (kind == 'L') longName = text(data, 0, data.size)
                    continue
                }
                val short = listOf(text(block, 345, 155), text(block, 0, 100)).filter { it.isNotEmpty() }.joinToString("/")
                val target = pax["linkpath"] ?: text(block, 157, 100)
                val mode = (number(block, 100, 8) and 511).toInt() // 0777
                val entry = Entry(pax["path"] ?: longName ?: short, kind, mode, number(block, 136, 12), size, target)
                pax = emptyMap()
                longName = null
                write(archive, into, entry)?.let { directories.add(it to entry) }
            }
        } catch (e: EOFException) {
            throw SandboxInternalException("the archive ends in the middle", e)
        } catch (e: IOException) {
            throw SandboxInternalException("the archive cannot be unpacked into $into: $e", e)
        }
        // What is below a directory would change its time, and may need rights that it does not give.
        for ((path, entry) in directories.asReversed()) setRights(path, entry)
    }

    /** The path, if it is a directory. */
    private fun write(
        archive: InputStream,
        root: Path,
        entry: Entry,
    ): Path? {
        val names = entry.name.split('/').filter { it.isNotEmpty() && it != "." }
        if (names.any { it == ".." || it.contains('\u0000') }) {
            throw SandboxInternalException("the archive names a path outside of it: ${entry.name}")
        }
        val isData = entry.kind == '0' || entry.kind == '\u0000'
        if (names.isEmpty() || !(isData || entry.kind == '5' || entry.kind == '2')) {
            skip(archive, entry.size)
            return null
        }
        val path = inside(root, names)
        return when {
            isData -> {
                remove(path)
                receive(archive, path, entry.size)
                setRights(path, entry)
                null
            }
            entry.kind == '5' -> {
                if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
                    remove(path)
                    Files.createDirectory(path)
                }
                skip(archive, entry.size)
                path
            }
            else -> {
                remove(path)
                Files.createSymbolicLink(path, path.fileSystem.getPath(entry.target))
                skip(archive, entry.size)
                null
            }
        }
    }

    /** The path below the root, all directories on the way made, and none of them a link. */
    private fun inside(
        root: Path,
        names: List<String>,
    ): Path {
        var path = root
        for (name in names.dropLast(1)) {
            path = path.resolve(name)
            if (Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) continue
            if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
                throw SandboxInternalException("the archive goes through $path, which is no directory")
            }
            Files.createDirectory(path)
        }
        return path.resolve(names.last())
    }

    private fun remove(path: Path) {
        if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) Files.deleteIfExists(path)
    }

    private fun receive(
        archive: InputStream,
        path: Path,
        size: Long,
    ) {
        Files.newOutputStream(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE).use { out ->
            val piece = ByteArray(PIECE_BYTES)
            var left = size
            while (left > 0) {
                val n = archive.read(piece, 0, minOf(left, piece.size.toLong()).toInt())
                if (n < 0) throw EOFException()
                out.write(piece, 0, n)
                left -= n
            }
        }
        exactly(archive, padding(size))
    }

    private fun setRights(
        path: Path,
        entry: Entry,
    ) {
        val bits = PosixFilePermission.values()
        val set = EnumSet.noneOf(PosixFilePermission::class.java)
        bits.forEachIndexed { at, bit -> if (entry.mode shr (PERMISSION_BITS - 1 - at) and 1 == 1) set.add(bit) }
        try {
            Files.setLastModifiedTime(path, FileTime.fromMillis(entry.seconds * 1000))
            Files.setPosixFilePermissions(path, set)
        } catch (_: UnsupportedOperationException) {
            // a file system without them
        }
    }

    private fun padding(size: Long): Int = ((BLOCK - size % BLOCK) % BLOCK).toInt()

    private fun skip(
        archive: InputStream,
        size: Long,
    ) {
        var left = size + padding(size)
        while (left > 0) left -= exactly(archive, minOf(left, PIECE_BYTES.toLong()).toInt()).size
    }

    private fun exactly(
        archive: InputStream,
        size: Int,
    ): ByteArray {
        val all = ByteArray(size)
        var at = 0
        while (at < size) {
            val n = archive.read(all, at, size - at)
            if (n < 0) throw EOFException()
            at += n
        }
        return all
    }

    private fun text(
        block: ByteArray,
        at: Int,
        length: Int,
    ): String {
        val end = (at until at + length).firstOrNull { block[it].toInt() == 0 } ?: (at + length)
        return String(block, at, end - at, Charsets.UTF_8)
    }

    private fun number(
        block: ByteArray,
        at: Int,
        length: Int,
    ): Long {
        if (block[at].toInt() and 0x80 != 0) { // GNU's base 256
            return (at + 1 until at + length).fold(0L) { value, i -> value * 256 + (block[i].toInt() and 0xff) }
        }
        return text(block, at, length).trim().ifEmpty { "0" }.toLongOrNull(8)
            ?: throw SandboxInternalException("the archive is broken: a number of a header")
    }

    private fun records(data: ByteArray): Map<String, String> {
        val found = HashMap<String, String>()
        var at = 0
        while (at < data.size) {
            val blank = (at until data.size).firstOrNull { data[it] == ' '.code.toByte() } ?: -1
            val length = if (blank < 0) 0 else String(data, at, blank - at, Charsets.UTF_8).toIntOrNull() ?: 0
            if (length <= blank - at + 1 || length > data.size - at) {
                throw SandboxInternalException("the archive is broken: a pax header")
            }
            val text = String(data, blank + 1, at + length - 1 - (blank + 1), Charsets.UTF_8)
            found[text.substringBefore('=')] = text.substringAfter('=')
            at += length
        }
        return found
    }
}
