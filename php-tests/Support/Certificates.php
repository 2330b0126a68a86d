<?php

declare(strict_types=1);

namespace RedisLease\Tests\Support;

use RuntimeException;

/** A certificate authority for one test run, and what it signs; made by the openssl program. */
final class Certificates
{
    private readonly string $directory;

    public function __construct(private readonly string $name = 'Test CA')
    {
        $this->directory = Janitor::directory('.ca');
        $this->key('ca');
        $this->openssl('req', '-x509', '-new', '-key', $this->path('ca.key'), '-out', $this->ca(), '-days', '2', '-subj', "/CN=$name");
    }

    /** The authority's own certificate, in PEM. */
    public function ca(): string
    {
        return $this->path('ca.pem');
    }

    /**
     * A certificate of this authority and its key, both in PEM.
     *
     * @param string $for as in a subjectAltName, "DNS:localhost,IP:127.0.0.1"; empty for a client's
     * @param string $begins and $ends in days from now; they may be negative
     * @return array{string, string} certificate, key
     */
    public function issue(string $for, int $begins = -1, int $ends = 2): array
    {
        static $number = 0;
        $name = 'cert' . ++$number;
        $this->key($name);
        $extensions = $this->path("$name.ext");
        file_put_contents($extensions, "basicConstraints=CA:FALSE\n" . ($for === '' ? "extendedKeyUsage=clientAuth\n" : "subjectAltName=$for\n"));
        file_put_contents($this->path("$name.db"), '');
        file_put_contents($this->path("$name.cnf"), <<<CNF
            [ca]
            default_ca=this
            [this]
            database={$this->path("$name.db")}
            new_certs_dir={$this->directory}
            default_md=sha256
            policy=any
            rand_serial=yes
            unique_subject=no
            [any]
            commonName=supplied
            CNF);
        $date = static fn (int $days) => gmdate('ymdHis', time() + 86_400 * $days) . 'Z';
        $this->openssl('req', '-new', '-key', $this->path("$name.key"), '-out', $this->path("$name.csr"), '-subj', "/CN=$name");
        $this->openssl(
            'ca', '-batch', '-notext', '-config', $this->path("$name.cnf"), '-cert', $this->ca(), '-keyfile', $this->path('ca.key'),
            '-in', $this->path("$name.csr"), '-out', $this->path("$name.pem"), '-extfile', $extensions,
            '-startdate', $date($begins), '-enddate', $date($ends),
        );

        return [$this->path("$name.pem"), $this->path("$name.key")];
    }

    /** @return array{string, string} certificate and key of a server that signed for itself */
    public function selfSigned(string $for): array
    {
        $this->key('self');
        $this->openssl(
            'req', '-x509', '-new', '-key', $this->path('self.key'), '-out', $this->path('self.pem'), '-days', '2',
            '-subj', '/CN=self', '-addext', "subjectAltName=$for",
        );

        return [$this->path('self.pem'), $this->path('self.key')];
    }

    private function key(string $name): void
    {
        $this->openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', $this->path("$name.key"));
    }

    private function path(string $name): string
    {
        return $this->directory . '/' . $name;
    }

    private function openssl(string ...$arguments): void
    {
        exec('openssl ' . implode(' ', array_map(escapeshellarg(...), $arguments)) . ' 2>&1', $said, $code);
        if ($code !== 0) {
            throw new RuntimeException('openssl ' . $arguments[0] . ': ' . implode("\n", $said));
        }
    }
}
